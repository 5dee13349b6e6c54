"""From a network to something that runs: options, pipelines, compilation."""
