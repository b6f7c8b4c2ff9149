/**
 * Driver of S3-compatible object stores: one object per batch, under a key that the batch alone determines. Overwriting
 * is harmless, since the same key always gets the same bytes.
 */
import type { Batch, DestinationDriver, DriverModule, DriverSettings, ObjectStoreSpec } from '../driver.ts'
import { DeliveryError } from '../driver.ts'
import { refusalOf } from '../set-aside.ts'
import { untilStopped } from '../until-stopped.ts'
import { objectOf } from './body.ts'
import { checkObjectStore } from './check.ts'
import { openStore, type PartSizes } from './connection.ts'

export const objectStore: DriverModule<ObjectStoreSpec> = {
  open: (spec, settings) => openObjectStore(spec, settings),
  check: checkObjectStore,
}

export function openObjectStore(
  spec: ObjectStoreSpec,
  settings: DriverSettings,
  sizes?: PartSizes,
): DestinationDriver {
  const { config } = spec
  const store = openStore(config, settings, sizes)
  return {
    async deliver(batch: Batch, signal: AbortSignal) {
      store.beginAttempt()
      try {
        const { key, body, contentType, contentEncoding } = await objectOf(batch, spec, settings.epoch)
        const object = { Key: key, Body: body, ContentType: contentType, ContentEncoding: contentEncoding }
        // node:http drops a connection that is upgraded (101) without an error, and the SDK waits on.
        await untilStopped(store.put(object, signal), signal)
      } catch (error) {
        if (signal.aborted) throw new DeliveryError('transient', 'aborted', 'The attempt was stopped.')
        const failure = store.deliveryError(error, batch.firstSeq)
        if (failure.fault !== 'records' || batch.messages.length > 1) throw failure
        throw failure.with({ rejected: refusalOf(failure, { seq: batch.firstSeq, recordIndex: null }) })
      }
    },
    async close() {
      store.close()
    },
  }
}
