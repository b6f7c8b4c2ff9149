/**
 * How much the tests with random cases, restarts or a duration do: `--scale` of test/run-files.ts multiplies it, and
 * TEST_SEED takes other cases.
 */
export const scale = Number(process.env.TEST_SCALE ?? 1)

export const seed = Number(process.env.TEST_SEED ?? 1)

/** Returns the count for this run; at least 1. */
export function scaled(count: number): number {
  return Math.max(1, Math.ceil(count * scale))
}
