/**
 * Which lanes this process may run. The unit is the pipe: one process owns all of a pipe's lanes at a time.
 *
 * The epoch grows with every change of owner. A lane that is opened raises the epoch of its row first, and every save of it
 * carries the epoch: a process that lost a pipe without noticing can save nothing any more (`LaneOwnershipLostError`).
 */
export interface LaneOwnership {
  /** The epoch under which this process owns the pipe; null: it does not. */
  owned(pipeId: string): number | null
  /**
   * True if lanes that were opened under this epoch can continue. Called before every attempt: ownership may have ended
   * while the process was paused.
   */
  holds(pipeId: string, epoch: number): boolean
  /** The pipe is this process's from now on: its lanes are loaded and started. */
  onGained(listener: (pipeId: string) => void): void
  /** The pipe is another's from now on: its lanes stop without saving. */
  onLost(listener: (pipeId: string) => void): void
  /**
   * Another process shall have the pipe, and gets it when the listener resolves: its lanes finish what is under way, as far as
   * that takes no longer than `graceMs`, and save. `owned` is null from then on; `holds` stays true until it resolves.
   */
  onReleased(listener: (pipeId: string, graceMs: number) => Promise<void>): void
  /** The pipe was made or changed: resolves when it has its owner, as far as that is for this process to see to. */
  changed(pipeId: string): Promise<void>
}

/**
 * The owner on whose behalf lane data is written. If the lane has had an owner with a newer epoch, a store writes nothing
 * and rejects with LaneOwnershipLostError: the owner named here was paused and does not know yet that it lost the lane.
 */
export interface LaneOwner {
  readonly destinationId: string
  readonly epoch: number
}

/** One process alone: everything is its own, always. */
export const ownsEverything: LaneOwnership = {
  owned: () => 1,
  holds: () => true,
  onGained: () => {},
  onLost: () => {},
  onReleased: () => {},
  changed: async () => {},
}
