"""Files of protobuf, with the extra `proto`."""
