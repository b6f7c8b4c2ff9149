/** Writes the stored body: the records' texts with the insertion before each closing brace, separated by newlines. */
import { closeBrace, comma, lineFeed } from './bytes'
import { insertionAt } from './layout'

let outputAt: usize = 0
let outputEnd: usize = 0
let insertionBytes: usize = 0

export function beginOutput(at: usize, insertion: i32): void {
  outputAt = at
  outputEnd = at
  insertionBytes = insertion
}

export function outputLength(): i32 {
  return <i32>(outputEnd - outputAt)
}

/** Returns false when there is no room and the memory cannot grow. */
export function writeRecord(start: usize, end: usize, isEmpty: bool): bool {
  const textBytes = end - start
  if (!hasRoom(outputEnd + textBytes + insertionBytes + 2)) return false
  let at = outputEnd
  if (at > outputAt) {
    store<u8>(at, lineFeed)
    at++
  }
  if (insertionBytes === 0) {
    memory.copy(at, start, textBytes)
    outputEnd = at + textBytes
    return true
  }
  memory.copy(at, start, textBytes - 1)
  at += textBytes - 1
  if (!isEmpty) {
    store<u8>(at, comma)
    at++
  }
  memory.copy(at, insertionAt, insertionBytes)
  at += insertionBytes
  store<u8>(at, closeBrace)
  outputEnd = at + 1
  return true
}

function hasRoom(end: usize): bool {
  const missing = <i32>((end + 0xffff) >> 16) - memory.size()
  return missing <= 0 || memory.grow(missing) >= 0
}
