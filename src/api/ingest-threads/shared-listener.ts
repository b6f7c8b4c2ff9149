/** One address, listened on by every ingest thread. */
import type { Listener, ListenerOptions } from '../http/engine.ts'
import { ListenError, requireFreeAddress } from '../http/listen.ts'
import type { IngestThread } from './ingest-thread-proxy.ts'
import type { Command } from './protocol.ts'

export class SharedListener implements Listener {
  readonly #threads: readonly IngestThread[]
  readonly #options: ListenerOptions
  #port: number
  #isListening = false

  constructor(threads: readonly IngestThread[], options: ListenerOptions) {
    this.#threads = threads
    this.#options = options
    this.#port = options.address.port
    for (const thread of threads) thread.serve(options)
  }

  get port(): number {
    return this.#port
  }

  async listen(): Promise<void> {
    if (this.#isListening) return
    const { name, address, paths } = this.#options
    // Chosen here: uWebSockets does not share a port that the system chose for it.
    const port = this.#port === 0 ? await requireFreeAddress(name, address) : this.#port
    const listen: Command = {
      kind: 'listen',
      name,
      address: { host: address.host, port },
      paths: paths.map(({ path, methods, keyed = [] }) => ({
        path,
        methods: [...methods.keys()],
        keyed: [...keyed],
      })),
    }
    try {
      await this.#all(listen)
    } catch {
      throw new ListenError(name, address, 'the system does not allow it')
    }
    this.#port = port
    this.#isListening = true
  }

  async stop(): Promise<void> {
    this.#isListening = false
    await this.#all({ kind: 'stop_listening' })
  }

  close(): void {
    for (const thread of this.#threads) thread.close()
  }

  async #all(command: Command): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.command(command)))
  }
}
