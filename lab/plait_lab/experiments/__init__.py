"""The experiments of the papers, a folder for each paper."""
