/**
 * A workspace whose ledger must balance whatever others do: it sends numbered records at a steady pace to one pipe, and
 * takes them from one destination: an endpoint, a table or a pull consumer.
 */
import type { ApiClient } from '../api-client.ts'
import { startHttpSink } from '../http-sink.ts'
import { type Audit, audit, drained, type Producer, readAll, startProducer } from '../ledger.ts'
import type { TestPostgres } from '../postgres.ts'
import { until } from '../until.ts'

export interface Balance extends Audit {
  accepted: number
  arrived: number
  /** Messages that the lane did not deliver. */
  skipped: number
  dropped: number
}

interface Destination {
  id: string
  /** The numbers of all records in the order of their arrival. */
  arrived(): Promise<number[]>
  stop(): Promise<unknown>
}

export class HonestTenant {
  readonly #client: ApiClient
  readonly #pipeId: string
  readonly #destination: Destination
  readonly #ledgerId: string
  readonly producer: Producer

  private constructor(client: ApiClient, pipeId: string, destination: Destination, ledgerId: string) {
    this.#client = client
    this.#pipeId = pipeId
    this.#destination = destination
    this.#ledgerId = ledgerId
    this.producer = startProducer(client, pipeId, { loops: 2, paceMs: 250 })
  }

  static async open(
    client: ApiClient,
    open: (client: ApiClient, pipeId: string) => Promise<Destination>,
  ): Promise<HonestTenant> {
    const pipeId = await client.createPipe({ pipe_name: 'ledger' })
    const ledgerId = await client.createDestination(pipeId, pullDestination)
    return new HonestTenant(client, pipeId, await open(client, pipeId), ledgerId)
  }

  /** Sends no more, waits until everything has arrived, and compares. */
  async balance(): Promise<Balance> {
    await this.producer.stop()
    const lane = await drained(this.#client, this.#pipeId, this.#destination.id)
    const inOrder = (await readAll(this.#client, this.#ledgerId)).numbers
    const arrived = await this.#destination.arrived()
    return {
      ...audit(this.producer, arrived, inOrder),
      accepted: this.producer.accepted.size,
      arrived: arrived.length,
      skipped: Number(lane.skipped_messages),
      dropped: Number(lane.dropped_messages),
    }
  }

  async stop(): Promise<void> {
    await this.producer.stop()
    await this.#destination.stop()
  }
}

const pullDestination = { destination_type: 'destination_pull', destination_config: {} }

export async function endpoint(client: ApiClient, pipeId: string): Promise<Destination> {
  const sink = await startHttpSink()
  const id = await client.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: sink.url, body_format: 'ndjson' },
  })
  const arrived = async () => sink.records().map(({ n }) => Number(n))
  return { id, arrived, stop: () => sink.stop() }
}

export const tableIn =
  (postgres: TestPostgres) =>
  async (client: ApiClient, pipeId: string): Promise<Destination> => {
    await postgres.query('CREATE TABLE ledger (place bigserial, message text PRIMARY KEY, n int)')
    const { host, port, database, user: username, password } = postgres
    const id = await client.createDestination(pipeId, {
      destination_type: 'destination_database',
      destination_config: { host, port, database, username, password, table: 'ledger' },
      columns: [
        { column_name: 'message', column_type: 'string', semantic_role: 'dedupe_id' },
        { column_name: 'n', column_type: 'number' },
      ],
    })
    const arrived = async () =>
      (await postgres.query('SELECT n FROM ledger ORDER BY place')).map(({ n }) => Number(n))
    return { id, arrived, stop: async () => {} }
  }

/** Pulls one message after the other, the next when it has the last. */
export async function consumer(client: ApiClient, pipeId: string): Promise<Destination> {
  const id = await client.createDestination(pipeId, pullDestination)
  const numbers: number[] = []
  let isRunning = true
  const pull = async () => {
    try {
      const answer = await client.api<{ records: { n: number }[] }>('GET', `/v1/pull/${id}?wait_ms=500`)
      if (answer.status === 200) numbers.push(...answer.body.records.map(({ n }) => n))
    } catch {
      await until('the daemon is there again', () => client.isReady || !isRunning)
    }
  }
  const pulling = (async () => {
    while (isRunning) await pull()
  })()
  const stop = async () => {
    isRunning = false
    await pulling
  }
  return { id, arrived: async () => numbers, stop }
}
