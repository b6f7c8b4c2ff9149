/** The copy of a stream on each server of a cluster: each server is asked while it leads. */
import { createHash } from 'node:crypto'
import { jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { TestNats } from './nats.ts'
import { until } from './until.ts'

interface Answer {
  message?: { subject: string; hdrs?: string; data?: string }
  error?: { err_code: number }
}

const atOnce = 64
const noMessage = 10037

/** By server: every message with its sequence, subject and a digest. Leadership is moved until each server has led. */
export async function copiesOf(nats: TestNats, stream: string): Promise<Map<string, string[]>> {
  const connection = await nats.connect()
  try {
    const manager = await jetstreamManager(connection, { timeout: 5_000, checkAPI: false })
    await until('all replicas are up to date', async () => {
      const { replicas = [] } = (await manager.streams.info(stream)).cluster ?? {}
      return replicas.every(({ current, offline }) => current && offline !== true)
    })
    const copies = new Map<string, string[]>()
    await until('each server has led', async () => {
      const { cluster, state } = await manager.streams.info(stream)
      const leader = cluster?.leader
      if (leader !== undefined && !copies.has(leader))
        copies.set(leader, await messagesOf(connection, stream, state.last_seq))
      if (copies.size === nats.servers.length) return true
      await connection.request(`$JS.API.STREAM.LEADER.STEPDOWN.${stream}`, '', { timeout: 5_000 })
      return false
    })
    return copies
  } finally {
    await connection.close()
  }
}

async function messagesOf(connection: NatsConnection, stream: string, last: number): Promise<string[]> {
  const found: string[] = []
  let next = 1
  const take = async () => {
    for (let seq = next++; seq <= last; seq = next++) {
      const answer = await connection.request(`$JS.API.STREAM.MSG.GET.${stream}`, JSON.stringify({ seq }), {
        timeout: 5_000,
      })
      const { message, error } = answer.json<Answer>()
      if (error !== undefined && error.err_code !== noMessage)
        throw new Error(`message ${seq}: error ${error.err_code}`)
      found[seq - 1] = message === undefined ? `${seq} gone` : `${seq} ${message.subject} ${digest(message)}`
    }
  }
  await Promise.all(Array.from({ length: atOnce }, take))
  return found
}

function digest({ hdrs = '', data = '' }: NonNullable<Answer['message']>): string {
  return createHash('sha256').update(`${hdrs} ${data}`).digest('hex').slice(0, 16)
}
