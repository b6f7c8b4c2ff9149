/**
 * Sends numbered records in measured portions, so that a test decides what is sent while which fault is on. Keeps the
 * books that `audit` of the ledger compares with.
 */
import type { TestDaemon } from '../support/daemon.ts'
import type { Producer } from '../support/ledger.ts'

export interface Sender extends Producer {
  /** This many messages, all answered 202 when it resolves. Throws when one is not. */
  send(messages: number): Promise<void>
  readonly perMessage: number
}

export function openSender(
  daemon: TestDaemon,
  pipeId: string,
  { perMessage = 3, loops = 4, fill = '' } = {},
): Sender {
  const sender: Sender = {
    accepted: new Set(),
    messages: new Set(),
    sent: 0,
    perMessage,
    async send(messages) {
      let left = messages
      const loop = async () => {
        while (left > 0) {
          left -= 1
          const numbers = Array.from({ length: perMessage }, () => sender.sent++)
          const records = numbers.map((n) => (fill === '' ? { n } : { n, fill }))
          const { msg_id: msgId } = await daemon.ingest(pipeId, records)
          for (const n of numbers) sender.accepted.add(n)
          sender.messages.add(msgId)
        }
      }
      await Promise.all(Array.from({ length: loops }, loop))
    },
    stop: async () => {},
  }
  return sender
}

/** accepted = delivered + skipped + dropped + pending, of a lane that has seen everything from the start. */
export function balance(
  lane: Record<string, unknown>,
  sender: Sender,
): { accepted: number; accounted: number } {
  const { delivered_records, skipped_messages, dropped_messages, pending_messages } = lane
  const messages = Number(skipped_messages) + Number(dropped_messages) + Number(pending_messages)
  return {
    accepted: sender.accepted.size,
    accounted: Number(delivered_records) + messages * sender.perMessage,
  }
}

/** Settings of destinations, as the tests of this folder make them. */
export function httpDestination(url: string, config: Record<string, unknown> = {}) {
  return {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${url}/`, body_format: 'ndjson', ...config },
  }
}

interface Server {
  host: string
  port: number
  database: string
  user: string
  password: string
}

export function tableDestination(server: Server, dialect: string, table: string, columns: unknown[]) {
  const { host, port, database, user: username, password } = server
  return {
    destination_type: 'destination_database',
    destination_config: { host, port, database, username, password, table, dialect },
    columns,
  }
}
