/** The differences between two states of one resource, for forms and messages. Pure. */

/** Top-level keys with different values, compared as JSON. */
export function changedKeys(before: object, now: object): string[] {
  const [one, other] = [new Map(Object.entries(before)), new Map(Object.entries(now))]
  return [...new Set([...one.keys(), ...other.keys()])].filter(
    (key) => JSON.stringify(one.get(key)) !== JSON.stringify(other.get(key)),
  )
}

export interface Difference {
  /** `destination_config.url`. */
  path: string
  /** JSON texts. Null: the key does not exist. */
  before: string | null
  now: string | null
}

/** Sorted by path. Objects are compared recursively; an array is one value. */
export function differences(before: object, now: object, within = ''): Difference[] {
  const [one, other] = [new Map(Object.entries(before)), new Map(Object.entries(now))]
  return changedKeys(before, now).flatMap((key) => {
    const [was, is]: unknown[] = [one.get(key), other.get(key)]
    const path = `${within}${key}`
    if (isPlain(was) && isPlain(is)) return differences(was, is, `${path}.`)
    return [{ path, before: JSON.stringify(was) ?? null, now: JSON.stringify(is) ?? null }]
  })
}

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
