import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("stable_baselines3") else ["test_*.py"]

if not collect_ignore_glob:
    import torch

    torch.set_num_threads(1)  # more would slow such small networks down, beside other tests all the more
