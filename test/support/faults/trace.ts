/** Reads the record that the fault library writes (library/trace.c): every call below the directory, in order. */
import { readFileSync } from 'node:fs'
import { type Kind, kinds } from './library.ts'

export interface Call {
  kind: Kind
  pid: number
  /** The new descriptor of an open. -1 if the call names a path. */
  fd: number
  /** The call's return value; negative: the errno. */
  result: number
  /** The offset of a write; the new length of a truncation; the new descriptor of a dup. */
  offset: number
  path: string
  second: string
  truncates: boolean
  created: boolean
  /** The bytes written; a very large write is cut short here, `written` is its true length. */
  data: Buffer
  written: number
}

const headerBytes = 56

export function readTrace(file: string): Call[] {
  const bytes = readFileSync(file)
  const calls: Call[] = []
  for (let at = 0; at < bytes.length; at += bytes.readUInt32LE(at)) calls.push(callAt(bytes, at))
  return calls
}

/** How long the record was after each call, in bytes. */
export function traceEnds(file: string): number[] {
  const bytes = readFileSync(file)
  const ends: number[] = []
  for (let at = 0; at < bytes.length; ends.push(at)) at += bytes.readUInt32LE(at)
  return ends
}

function callAt(bytes: Buffer, at: number): Call {
  const flags = bytes.readUInt16LE(at + 6)
  const pathEnd = at + headerBytes + bytes.readUInt32LE(at + 40)
  const secondEnd = pathEnd + bytes.readUInt32LE(at + 44)
  const kind = kinds[bytes.readUInt16LE(at + 4)]
  if (kind === undefined) throw new Error(`the trace is damaged at byte ${at}`)
  return {
    kind,
    pid: bytes.readInt32LE(at + 8),
    fd: bytes.readInt32LE(at + 12),
    result: Number(bytes.readBigInt64LE(at + 24)),
    offset: Number(bytes.readBigInt64LE(at + 32)),
    path: bytes.toString('utf8', at + headerBytes, pathEnd),
    second: bytes.toString('utf8', pathEnd, secondEnd),
    truncates: (flags & 1) !== 0,
    created: (flags & 2) !== 0,
    data: bytes.subarray(secondEnd, secondEnd + bytes.readUInt32LE(at + 48)),
    written: bytes.readUInt32LE(at + 52),
  }
}
