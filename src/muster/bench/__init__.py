"""What runs were worth: results that anybody can compute again from the records, energy, bundles, reports."""
