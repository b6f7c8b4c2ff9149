/** The pages and records of SQLite's file format, for code that reads files without SQLite. */
/** The first byte of a page. */
export const leafTable = 13
export const leafIndex = 10
/** The bytes before the first page's own head. */
export const fileHeadBytes = 100

/** The amounts that fit into each part, by the size of a page. */
export interface PageLayout {
  pageBytes: number
  /** An overflow page begins with the number of the next one. */
  overflowPayload: number
  /** The longest payload that lies in a leaf as a whole, */
  mostLocal: { table: number; index: number }
  /** and of a longer one, what lies there at least. */
  leastLocal: number
}

export function pageLayout(pageBytes: number): PageLayout {
  return {
    pageBytes,
    overflowPayload: pageBytes - 4,
    mostLocal: { table: pageBytes - 35, index: Math.floor(((pageBytes - 12) * 64) / 255) - 23 },
    leastLocal: Math.floor(((pageBytes - 12) * 32) / 255) - 23,
  }
}

/** The bytes of a payload that are in the leaf itself. */
export function localBytes(layout: PageLayout, kind: 'table' | 'index', payloadBytes: number): number {
  const { leastLocal, overflowPayload } = layout
  const most = layout.mostLocal[kind]
  if (payloadBytes <= most) return payloadBytes
  const local = leastLocal + ((payloadBytes - leastLocal) % overflowPayload)
  return local <= most ? local : leastLocal
}

const numberBytes = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0]

/**
 * Bytes of a column by its serial type: 0 null, 1 to 6 integers, 7 double, 8 and 9 the numbers 0 and 1, from 12 on blobs
 * (even) and text (odd). Infinite for a type that does not exist, so that no length agrees with it.
 */
export function bytesOfType(type: number): number {
  if (type >= 12) return Math.floor((type - 12) / 2)
  return numberBytes[type] ?? Number.POSITIVE_INFINITY
}
