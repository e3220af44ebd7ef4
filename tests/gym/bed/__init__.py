"""A small run of the real NeMo Gym, in which things go wrong on demand.

Real are the head server, the model server, the agent, the environment servers and the collection of rollouts, each a
process of NeMo Gym's environment. Ours are the provider of models and a resources server. Every rollout carries a mark,
`[scenario:<route>-<fault>]`, by which these two know what to do to it.
"""
