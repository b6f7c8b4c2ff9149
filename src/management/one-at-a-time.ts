/**
 * Changes of one thing, one after the other. PATCH destination reads the stored config, merges and writes it back: two
 * at once would each write over what the other had changed. This orders them within the process; the stored row itself
 * is always one of the merged states, whole.
 */
export interface OneAtATime {
  /** Runs `change` when every earlier one of the same `id` is over, whether it succeeded or not. */
  run<T>(id: string, change: () => Promise<T>): Promise<T>
}

export function oneAtATime(): OneAtATime {
  const last = new Map<string, Promise<unknown>>()
  return {
    run(id, change) {
      const mine = (last.get(id) ?? Promise.resolve()).then(change, change)
      last.set(id, mine)
      const forget = () => {
        if (last.get(id) === mine) last.delete(id)
      }
      mine.then(forget, forget)
      return mine
    },
  }
}
