"""The run directory: its layout, its files, its states and its logs. Every tool sees a run through this room."""
