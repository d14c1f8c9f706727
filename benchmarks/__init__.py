"""What is measured rather than tested: speed, accuracy, calibration, the compiled corpus, MaxText's acceptance."""
