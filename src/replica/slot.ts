/**
 * One slot: an object of the replica's log. Whoever creates the slot first has written it, and it is never changed.
 *
 *   plain    4 bytes header length │ 8 bytes length of the log rows │ header (JSON) │ log rows │ metadata rows
 *   object   sealed under the name of the slot (sealing.ts)
 *
 * Slots form a chain: each one has the checksum of its predecessor, so a reader proves that none is missing or replaced.
 */
import { SealError, type SealFault, sealParts, tagOf, unseal } from './sealing.ts'

export interface SlotHeader {
  format: 1
  slot: number
  /** Increases with every takeover. A writer that finds a greater one stops. */
  generation: number
  writerId: string
  /** The tag of the sealed previous slot (`tagOf`), hex. Empty for the first. */
  previous: string
  /** Everything that was acknowledged before, ms since the epoch, is in this slot or an earlier one if it is complete. */
  createdMs: number
  dataDirId: string
  epoch: number
  /** Null: the slot has no log rows. */
  log: { firstSeq: number; lastSeq: number; messages: number; bytes: number } | null
  /** The last seq that was shipped so far, with this slot. */
  headSeq: number
  keptFromSeq: number
  metadataRows: number
  /** The recording of changes (`RowChanges.recordingId`) that the metadata rows are a part of. */
  recordingId: string
  /** False: more slots of the same moment follow. A restore applies the metadata rows of whole moments only. */
  complete: boolean
  /** The release of pipectl that wrote the slot. */
  version: string
}

export interface Slot {
  header: SlotHeader
  logRows: Buffer
  metadataRows: Buffer
}

export type SlotFault = SealFault

/** The message names the slot and says what is wrong. */
export class SlotError extends Error {
  readonly fault: SlotFault

  constructor(fault: SlotFault, message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'SlotError'
    this.fault = fault
  }
}

export const slotPrefix = 'log/'
const slotDigits = 17
const lengthsBytes = 4 + 8

/** `log/00000000000000042`: the order of names is the order of slots. */
export function slotName(slot: number): string {
  return `${slotPrefix}${String(slot).padStart(slotDigits, '0')}`
}

/** Null: not the name of a slot. */
export function slotOfName(name: string): number | null {
  const digits = name.startsWith(slotPrefix) ? name.slice(slotPrefix.length) : ''
  const slot = /^\d+$/.test(digits) && digits.length === slotDigits ? Number(digits) : Number.NaN
  return Number.isSafeInteger(slot) ? slot : null
}

/** `memory` gives the bytes of the body. */
export function encodeSlot(
  key: Buffer,
  { header, logRows, metadataRows }: Slot,
  memory?: (bytes: number) => Buffer,
): { name: string; body: Buffer; checksum: string } {
  const text = Buffer.from(JSON.stringify(header))
  const lengths = Buffer.alloc(lengthsBytes)
  lengths.writeUInt32BE(text.length, 0)
  lengths.writeBigUInt64BE(BigInt(logRows.length), 4)
  const name = slotName(header.slot)
  const body = sealParts(key, name, [lengths, text, logRows, metadataRows], memory)
  return { name, body, checksum: checksumOf(body) }
}

/** Throws SlotError if the object is damaged, was sealed with another key, or has a newer format. */
export function decodeSlot(key: Buffer, name: string, body: Uint8Array): { slot: Slot; checksum: string } {
  const plain = unsealSlot(key, name, body)
  if (plain.length < lengthsBytes) throw damaged(name, 'it is cut off')
  const textEnd = lengthsBytes + plain.readUInt32BE(0)
  const logEnd = textEnd + Number(plain.readBigUInt64BE(4))
  if (logEnd > plain.length) throw damaged(name, 'its sections are longer than the object')
  const header = headerOf(name, plain.subarray(lengthsBytes, textEnd).toString())
  return {
    slot: { header, logRows: plain.subarray(textEnd, logEnd), metadataRows: plain.subarray(logEnd) },
    checksum: checksumOf(body),
  }
}

function unsealSlot(key: Buffer, name: string, body: Uint8Array): Buffer {
  try {
    return unseal(key, name, body)
  } catch (error) {
    if (error instanceof SealError) throw new SlotError(error.fault, error.message, error)
    throw error
  }
}

/** The header was sealed with our key, so only its format and its slot are checked. */
function headerOf(name: string, text: string): SlotHeader {
  const header = parse(name, text)
  if (!(header.format <= 1))
    throw new SlotError('newer_format', `${name}: written by a newer release of pipectl (${header.version})`)
  if (slotName(header.slot) !== name) throw damaged(name, `its header belongs to slot ${header.slot}`)
  return header
}

function parse(name: string, text: string): SlotHeader {
  try {
    return JSON.parse(text) as SlotHeader
  } catch {
    throw damaged(name, 'its header is not JSON')
  }
}

function damaged(name: string, what: string): SlotError {
  return new SlotError('damaged', `${name}: damaged: ${what}`)
}

function checksumOf(body: Uint8Array): string {
  return tagOf(body).toString('hex')
}
