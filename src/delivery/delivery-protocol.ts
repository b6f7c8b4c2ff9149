/** What main and delivery thread say to each other: questions by number, answers by the same number. */
import type { MessagePort } from 'node:worker_threads'
import type { DriverSettings } from '../destinations/driver.ts'
import type { LogSettings } from '../log.ts'
import type { DeliveryDesk } from './delivery-desk.ts'

export interface DeliveryThreadData {
  feedPort: MessagePort
  bufferDir: string
  quarantineDir: string
  metadataFile: string
  sealingKey: Uint8Array
  driverSettings: DriverSettings
  maxInFlightBytes: number
  log: LogSettings
}

/** Every method of the desk, and `close(graceMs)`. */
export type DeliveryMethod = keyof DeliveryDesk | 'close'

export interface DeliveryQuestion {
  id: number
  method: DeliveryMethod
  args: unknown[]
}

export type DeliveryAnswer =
  /** First of all: the lanes are loaded. */
  | { kind: 'ready' }
  | { kind: 'answer'; id: number; value: unknown }
  /** A fault of ours: `message` for the log. */
  | { kind: 'failure'; id: number; message: string }
