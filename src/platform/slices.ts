/** The list in parts of at most this size, for statements and messages with a limit. */
export function slices<T>(list: readonly T[], size: number): T[][] {
  const count = Math.ceil(list.length / size)
  return Array.from({ length: count }, (_, at) => list.slice(at * size, (at + 1) * size))
}
