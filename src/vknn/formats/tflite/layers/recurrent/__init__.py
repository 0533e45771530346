"""Recurrent operators: RNN, LSTM, SVDF."""
