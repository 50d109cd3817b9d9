"""Running a package as AISBench's tools do."""
