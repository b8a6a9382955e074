"""What a cluster says about JobSets: facts that were read, and findings made of them."""
