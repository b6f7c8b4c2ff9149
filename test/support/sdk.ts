/** The JavaScript client as it is packed, for Node.js, and pipes that count its records. */
import { readFileSync } from 'node:fs'
import type { Client, ClientOptions, DropReason, Problem } from '../../sdk/js/src/types.ts'
import type { TestDaemon } from './daemon.ts'
import { countArrivals, type SentRecord } from './shop.ts'

export const sdkFolder = new URL('../../sdk/js/', import.meta.url).pathname
export const sdkForNode = `${sdkFolder}dist/node.js`

export const { createClient } = (await import(sdkForNode)) as {
  createClient<R extends object = object>(options: ClientOptions): Client<R>
}

export interface SdkPipe {
  pipeId: string
  key: string
  arrived(): Promise<SentRecord[]>
  /** The settings for a client that sends to this pipe, at this address. */
  options(url?: string): { url: string; pipe: string; key: string }
}

let made = 0

/** A pipe without added fields, and a key that can only send to it. */
export async function makeSdkPipe(daemon: TestDaemon): Promise<SdkPipe> {
  const name = `sdk${made++}`
  const pipeId = await daemon.createPipe({ pipe_name: name, pipe_add_ingest_ts: false })
  const arrived = await countArrivals(daemon, pipeId)
  const { body } = await daemon.api<{ api_key: string }>('POST', '/v1/api-keys', {
    ...{ api_key_name: name, api_key_scopes: ['ingest'], api_key_pipe_ids: [pipeId] },
  })
  const key = body.api_key
  return { pipeId, key, arrived, options: (url = daemon.dataUrl) => ({ url, pipe: pipeId, key }) }
}

export interface Observed {
  drops: { reason: DropReason; numbers: unknown[]; problem?: Problem }[]
  problems: Problem[]
}

/** The callbacks of a client that keep what it reports. */
export function observed(): Observed & Required<Pick<ClientOptions, 'onDrop' | 'onError'>> {
  const drops: Observed['drops'] = []
  const problems: Problem[] = []
  return {
    drops,
    problems,
    onDrop: (records, reason, problem) =>
      drops.push({ reason, numbers: (records as SentRecord[]).map((one) => one?.n), problem }),
    onError: (problem) => problems.push(problem),
  }
}

export function readSdk(name: string): Buffer {
  return readFileSync(`${sdkFolder}${name}`)
}
