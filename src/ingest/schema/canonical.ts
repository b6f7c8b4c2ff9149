/** Comparison of JSON values, for `enum`, `const` and `uniqueItems`, in time linear in their size. */

/** A value that is equal for equal JSON values, whatever the order of their keys. Strings are marked, lists are texts. */
export function identityOf(value: unknown): unknown {
  if (typeof value === 'string') return `"${value}`
  return typeof value === 'object' && value !== null ? canonicalText(value) : value
}

/** JSON with sorted keys. The depth of records is bounded (parse.ts), so the recursion is. */
function canonicalText(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([key, inner]) => `${JSON.stringify(key)}:${canonicalText(inner)}`).join(',')}}`
}

/** The values, keys and blocks of 16 characters inside a value. Stops counting above `enough`. */
export function sizeOf(value: unknown, enough: number): number {
  let size = 0
  const waiting = [value]
  while (waiting.length > 0 && size <= enough) {
    const one = waiting.pop()
    size += 1 + (typeof one === 'string' ? one.length >> 4 : 0)
    if (typeof one !== 'object' || one === null) continue
    for (const [key, inner] of Object.entries(one)) {
      size += 1 + (key.length >> 4)
      waiting.push(inner)
    }
  }
  return size
}

/** Steps for each of them: objects with different keys take up to 4 µs each in `identityOf`. */
export const stepsPerValue = 32
