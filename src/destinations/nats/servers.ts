/** Holds a driver's single connection: to the first server that accepts it, starting with the last one that did. */
import { DeliveryError, type DriverSettings, type NatsSpec } from '../driver.ts'
import { ReadLimit } from '../guards.ts'
import { aborted } from '../one-by-one.ts'
import { parseAddresses } from './addresses.ts'
import { connectNats, type NatsLink } from './connection.ts'

export class NatsServers {
  readonly #spec: NatsSpec
  readonly #settings: DriverSettings
  readonly #reads = new ReadLimit()
  readonly #closing = new AbortController()
  #link: NatsLink | null = null
  #first = 0

  constructor(spec: NatsSpec, settings: DriverSettings) {
    this.#spec = spec
    this.#settings = settings
  }

  /** Starts an attempt. Rejects with the error of the server that was tried last, or with an error that applies to all. */
  async connect(signal: AbortSignal): Promise<NatsLink> {
    if (signal.aborted) throw aborted()
    this.#reads.begin()
    if (this.#link?.isUsable) return this.#link
    this.#link?.close()
    this.#link = null
    const stop = AbortSignal.any([signal, this.#closing.signal])
    const addresses = parseAddresses(this.#spec.config.url)
    for (let tried = 1; ; tried += 1) {
      const address = addresses[this.#first % addresses.length]
      try {
        const link = await connectNats(
          { address: address!, config: this.#spec.config, reads: this.#reads },
          this.#settings,
          stop,
        )
        if (this.#closing.signal.aborted) link.close()
        this.#link = link
        return link
      } catch (error) {
        this.#first += 1
        const isAll = error instanceof DeliveryError && error.class === 'permanent'
        if (isAll || stop.aborted || tried >= addresses.length) throw error
      }
    }
  }

  close(): void {
    this.#closing.abort()
    this.#link?.close()
  }
}
