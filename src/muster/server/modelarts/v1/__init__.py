"""The routes of version 1 of the API, whose jobs have versions, and numbers for ids and states."""
