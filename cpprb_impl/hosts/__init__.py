"""The parts of a multi-host buffer that do not depend on Ray: messages, shard servers and their clients."""
