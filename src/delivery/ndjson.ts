/** A message's body, one record's own text a line, in the shapes it is handed out in. Bytes are never re-serialized. */

const newline = 0x0a
const comma = 0x2c

/** The JSON array of the records, in memory of its own (it can be transferred to another thread). */
export function toJsonArray(body: Uint8Array): Uint8Array<ArrayBuffer> {
  const json = new Uint8Array(body.length + 2)
  json.set(body, 1)
  // Inside a record a raw newline is only white space, and ingest made spaces of those: every one is a boundary.
  for (let at = json.indexOf(newline); at !== -1; at = json.indexOf(newline, at + 1)) json[at] = comma
  json[0] = 0x5b
  json[json.length - 1] = 0x5d
  return json
}

/** The texts of the first `count` records. */
export function firstRecords(body: Buffer, count: number): string[] {
  const texts: string[] = []
  let start = 0
  while (texts.length < count && start < body.length) {
    const end = body.indexOf(newline, start)
    texts.push(body.toString('utf8', start, end === -1 ? body.length : end))
    if (end === -1) break
    start = end + 1
  }
  return texts
}
