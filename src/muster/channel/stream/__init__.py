"""The channel as a byte stream: the files of a node are mirrored over it, and what is announced flows down."""
