"""The parts of a buffer over several hosts that do not depend on Ray: messages, servers of a shard, clients."""
