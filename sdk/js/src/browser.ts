/**
 * The client for browsers. Its queue is in localStorage, and it hands the last batches to the browser while the page
 * closes. In a worker, which has neither, the queue is in memory.
 */
import { type Core, openClient } from './client.ts'
import { type BatchStore, beaconMs } from './queue.ts'
import type { Client, ClientOptions } from './types.ts'

export type * from './types.ts'

/** Throws a TypeError if `options.url` is not a URL. Nothing else throws. */
export function createClient<R extends object = object>(options: ClientOptions): Client<R> {
  const core = openClient(options, {
    store: () => store,
    // Four batches fit into the 64 KiB that a browser accepts from a closing page.
    batch: { maxRecords: 100, maxBytes: 16_384, maxWaitMs: 1_000 },
    largestBatch: 60_000,
    queue: { maxRecords: 20_000, maxBytes: 1_000_000 },
  })
  return typeof document === 'undefined' ? core.client : onPage(core)
}

/** Each access can throw: the user can block localStorage, and it can be full. */
const store: BatchStore = {
  isShared: true,
  keys: () => Object.keys(localStorage),
  getItem: (name) => localStorage.getItem(name),
  setItem: (name, item) => localStorage.setItem(name, item),
  removeItem: (name) => localStorage.removeItem(name),
}

function onPage(core: Core): Client {
  const { client, queue, run } = core
  let isLeaving = false

  const handOver = (name: string) => {
    const body = queue.bodyOf(name)
    queue.release(name)
    // After a failed request a beacon would fail too, without reporting it.
    if (core.isFailing() || !navigator.onLine) return
    if (core.hasKey) core.request(name, body, { keepalive: true }).catch(() => queue.release(name))
    else if (!navigator.sendBeacon?.(core.target(name), body)) return
    queue.save(name, -Date.now() + body)
  }
  /**
   * The page can close now: hands as many batches as possible to the browser, and leaves all of them to the next
   * page.
   */
  const hide = () => {
    isLeaving = true
    setTimeout(() => {
      isLeaving = false
    })
    queue.seal()
    for (const name of queue.names())
      if (queue.timeOf(name) >= 0 && (name === core.sending() || queue.isFree(name))) handOver(name)
    core.schedule(beaconMs)
  }
  // A request that begins now would keep its batch from the next page for the duration of the lease.
  const end = () => {
    core.suspend(true)
    hide()
  }
  const look = () => {
    if (document.visibilityState === 'hidden') return hide()
    core.suspend(false)
    run()
  }
  const online = () => {
    core.resume()
    run()
  }

  const listeners = [
    [document, 'visibilitychange', look],
    [document, 'freeze', hide],
    [globalThis, 'pagehide', end],
    [globalThis, 'pageshow', look],
    [globalThis, 'online', online],
  ] as const
  for (const [target, name, listener] of listeners) target.addEventListener(name, listener)

  return {
    ...client,
    send: (record) => {
      const isKept = client.send(record)
      // While the page closes, a later listener of the same event can send this record.
      if (isLeaving) hide()
      return isKept
    },
    close: (waitMs) => {
      for (const [target, name, listener] of listeners) target.removeEventListener(name, listener)
      return client.close(waitMs)
    },
  }
}
