/**
 * The cells of one column of a row group, until the group is encoded.
 *
 * Texts are kept as UTF-8 outside of the JavaScript heap. As strings, each would keep the text of its complete record
 * in memory, and V8 would collect them only after several row groups: with 8 MiB of values the heap grew to 140 MiB.
 */
import type { Cell, ParquetKind } from './parquet-columns.ts'

export interface ColumnCells {
  add(cell: Cell): void
  all(): Cell[]
  clear(): void
}

export function isText(kind: ParquetKind): boolean {
  return kind === 'string' || kind === 'json'
}

export class PlainCells implements ColumnCells {
  #cells: Cell[] = []

  add(cell: Cell): void {
    this.#cells.push(cell)
  }

  all(): Cell[] {
    return this.#cells
  }

  clear(): void {
    this.#cells = []
  }
}

const firstBytes = 4 * 1024
/** Memory that is larger, relative to what the last row group used of it, is not kept for the next one. */
const keptPerUsed = 4
/** UTF-8 has at most this number of bytes for each UTF-16 unit of a string. */
const bytesPerCharacter = 3
/** The exact size of a longer text is computed before memory is allocated for it. */
const shortCharacters = 4 * 1024
const isNull = -1

export class TextCells implements ColumnCells {
  #bytes = Buffer.allocUnsafeSlow(firstBytes)
  #used = 0
  /** The number of characters of each text. */
  #lengths: number[] = []

  add(cell: Cell): void {
    if (typeof cell !== 'string') {
      this.#lengths.push(isNull)
      return
    }
    const isShort = cell.length <= shortCharacters
    this.#reserve(isShort ? cell.length * bytesPerCharacter : Buffer.byteLength(cell))
    this.#used += this.#bytes.write(cell, this.#used)
    this.#lengths.push(cell.length)
  }

  /** Converted together and cut: much faster than one conversion for each text. */
  all(): Cell[] {
    const text = this.#bytes.toString('utf8', 0, this.#used)
    let at = 0
    return this.#lengths.map((length) => {
      if (length === isNull) return null
      at += length
      return text.slice(at - length, at)
    })
  }

  /**
   * The next row group uses the same memory. All columns together keep at most `keptPerUsed` times the values of one row
   * group.
   */
  clear(): void {
    if (this.#bytes.length > keptPerUsed * this.#used) this.#bytes = Buffer.allocUnsafeSlow(firstBytes)
    this.#used = 0
    this.#lengths = []
  }

  #reserve(bytes: number): void {
    const needed = this.#used + bytes
    if (needed <= this.#bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#bytes.length))
    this.#bytes.copy(larger, 0, 0, this.#used)
    this.#bytes = larger
  }
}
