/** Random numbers that a seed repeats (mulberry32). */
export interface Random {
  /** 0 ≤ x < 1. */
  next(): number
  /** 0 ≤ n < limit. */
  below(limit: number): number
  pick<T>(choices: readonly T[]): T
}

export function seeded(seed: number): Random {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return { next, below, pick: (choices) => choices[below(choices.length)]! }
}
