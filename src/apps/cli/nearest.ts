/** Suggests an existing name for one that does not exist. */

/** The most similar name, if it is similar enough to be a typing error. */
export function nearest(name: string, names: readonly string[]): string | null {
  const most = Math.max(1, Math.floor(name.length / 3))
  let found: string | null = null
  let least = most + 1
  for (const one of names) {
    const edits = editsBetween(name.toLowerCase(), one.toLowerCase())
    if (edits < least) [found, least] = [one, edits]
  }
  return found
}

/** Characters to insert, delete or replace, and neighbors to swap (optimal string alignment), computed row by row. */
function editsBetween(a: string, b: string): number {
  let earlier: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const swapped = isSwap ? earlier[j - 2]! + 1 : Number.POSITIVE_INFINITY
      next.push(Math.min(replaced, swapped, row[j]! + 1, next[j - 1]! + 1))
    }
    ;[earlier, row] = [row, next]
  }
  return row[b.length]!
}
