/**
 * Work that holds the thread for long, one piece in each turn of the event loop: between two of them timers, sockets and
 * everyone else's lanes get theirs. Without it reads that were asked for at the same time run one after the other in
 * one turn, because all that they wait for is each other.
 */
export class EventLoopTurns {
  #last: Promise<void> = Promise.resolve()

  /** Resolves when it is one's turn: at once when nobody was before. First come, first served. */
  take(): Promise<void> {
    const turn = this.#last
    this.#last = turn.then(() => new Promise((resolve) => setImmediate(resolve)))
    return turn
  }
}
