/**
 * Decides which lanes this process runs. The unit is the pipe: one process owns all of a pipe's lanes at a time.
 *
 * The epoch grows with every change of owner. Opening a lane raises the epoch in its row first, and every save of it
 * carries the epoch. A process that lost a pipe without noticing can therefore save nothing (`LaneOwnershipLostError`).
 */
export interface LaneOwnership {
  /** Returns the epoch under which this process owns the pipe; null: it does not own it. */
  owned(pipeId: string): number | null
  /**
   * True if lanes that were opened under this epoch can continue. Called before every attempt, because ownership may
   * have ended while the process was paused.
   */
  holds(pipeId: string, epoch: number): boolean
  /** Calls back when this process becomes the owner of a pipe, so that its lanes are loaded and started. */
  onGained(listener: (pipeId: string) => void): void
  /** Calls back when another process has become the owner of a pipe: its lanes stop without saving. */
  onLost(listener: (pipeId: string) => void): void
  /**
   * Calls back when another process is to own the pipe. It becomes the owner when the listener resolves. The lanes
   * finish their current work within `graceMs` and save. `owned` is null from then on; `holds` stays true until the
   * listener resolves.
   */
  onReleased(listener: (pipeId: string, graceMs: number) => Promise<void>): void
  /**
   * Call it when a pipe was created or changed. Resolves when the pipe has an owner, as far as this process decides
   * that.
   */
  changed(pipeId: string): Promise<void>
}

/**
 * The owner that writes data of a lane. If the lane has had an owner with a newer epoch, a store writes nothing and
 * rejects with LaneOwnershipLostError. This happens when the owner was paused and has not noticed that it lost the
 * lane.
 */
export interface LaneOwner {
  readonly destinationId: string
  readonly epoch: number
}
