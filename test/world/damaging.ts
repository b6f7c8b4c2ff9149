/** Ways to damage a file: single bits, whole pages of a SQLite file, everything. */
import { closeSync, openSync, readFileSync, readSync, statSync, writeFileSync, writeSync } from 'node:fs'

export const pageBytes = 4096
/** First byte of a page of the table's tree that holds rows. */
const tableLeaf = 0x0d

export function flipBit(file: string, offset: number, bit = 0): void {
  const fd = openSync(file, 'r+')
  const byte = Buffer.alloc(1)
  readSync(fd, byte, 0, 1, offset)
  byte[0] = (byte[0] ?? 0) ^ (1 << bit)
  writeSync(fd, byte, 0, 1, offset)
  closeSync(fd)
}

export function overwrite(file: string, offset: number, content: Buffer): void {
  const fd = openSync(file, 'r+')
  writeSync(fd, content, 0, content.length, offset)
  closeSync(fd)
}

export const zeroPage = (file: string, page: number) =>
  overwrite(file, (page - 1) * pageBytes, Buffer.alloc(pageBytes))

/** No zeros, and nothing that SQLite could take for its own. */
export const garbage = (bytes: number) => Buffer.alloc(bytes, '\x81garbage')

/** Everything after the first page. */
export function garbleAfterHeader(file: string): void {
  overwrite(file, pageBytes, garbage(statSync(file).size - pageBytes))
}

/** In the body of the message with this record: in every copy of it, for SQLite leaves old ones behind. */
export function flipBitOfRecord(file: string, n: number): void {
  const content = readFileSync(file)
  const text = `"n":${n},`
  let found = 0
  for (let at = content.indexOf(text); at >= 0; at = content.indexOf(text, at + 1)) {
    flipBit(file, at + 40)
    found += 1
  }
  if (found === 0) throw new Error(`${file} does not hold ${text}`)
}

export interface LeafPage {
  /** Counted from 1, as SQLite does. */
  page: number
  offset: number
  /** Numbers of the records on it. */
  numbers: number[]
}

/** A page in the middle of the file with the messages of several requests on it. */
export function leafPage(file: string): LeafPage {
  const content = readFileSync(file)
  const found: LeafPage[] = []
  for (let offset = pageBytes; offset < content.length; offset += pageBytes) {
    if (content[offset] !== tableLeaf) continue
    const numbers = numbersOn(content.subarray(offset, offset + pageBytes))
    if (numbers.length > 1) found.push({ page: offset / pageBytes + 1, offset, numbers })
  }
  const middle = found[Math.floor(found.length / 2)]
  if (middle === undefined) throw new Error(`${file} has no page with messages`)
  return middle
}

/** Reads the cells that the page names: everything else on it was deleted or moved. */
function numbersOn(page: Buffer): number[] {
  const cells = Array.from({ length: page.readUInt16BE(3) }, (_, index) => page.readUInt16BE(8 + 2 * index))
  const ends = [...cells, pageBytes].sort((a, b) => a - b)
  return cells.flatMap((start) => {
    const text = page.toString(
      'latin1',
      start,
      ends.find((end) => end > start),
    )
    const match = /"n":(\d+),/.exec(text)
    return match === null ? [] : [Number(match[1])]
  })
}

/** Cut to this share of its size. */
export function cut(file: string, share: number): void {
  const content = readFileSync(file)
  writeFileSync(file, content.subarray(0, Math.floor(content.length * share)))
}
