"""Parts of every kernel rule: problems, candidates, the emitter, workgroups, layouts, epilogues."""
