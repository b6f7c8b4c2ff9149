/**
 * Which lanes this process may run. The unit is the pipe: one process owns all of a pipe's lanes at a time.
 *
 * The epoch grows with every change of owner, and every save of a lane carries it: a process that lost a pipe without
 * noticing cannot overwrite what its successor saved (`LaneOwnershipLostError`).
 */
export interface LaneOwnership {
  /** The epoch under which this process owns the pipe; null: it does not. */
  owned(pipeId: string): number | null
  /** The pipe is this process's from now on: its lanes are loaded and started. */
  onGained(listener: (pipeId: string) => void): void
  /** The pipe is another's from now on: its lanes stop without saving. */
  onLost(listener: (pipeId: string) => void): void
}

/** One process alone: everything is its own, always. */
export const ownsEverything: LaneOwnership = {
  owned: () => 1,
  onGained: () => {},
  onLost: () => {},
}
