"""Files and folders of saved models, what a save or load wants, and damage."""
