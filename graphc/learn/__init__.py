"""Training: schedules, the order of samples, learners and the loop over epochs."""
