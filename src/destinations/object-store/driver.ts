/**
 * Driver of S3-compatible object stores: one object per batch, under a key that depends only on the batch. Overwriting is
 * harmless, since the same key always gets the same bytes. Records that do not fit the columns of a Parquet object are parked,
 * if the lane parks, before the object is stored.
 */
import type {
  AttemptProgress,
  Batch,
  DestinationDriver,
  DriverModule,
  DriverSettings,
  ObjectStoreSpec,
} from '../driver.ts'
import { type DeliveryError, noProgress } from '../driver.ts'
import { untilStopped } from '../guards.ts'
import { aborted } from '../one-by-one.ts'
import { parkAll, rejectedRecordOf, rejectionOf } from '../park.ts'
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
    async deliver(batch: Batch, signal: AbortSignal, { park }: AttemptProgress = noProgress) {
      store.beginAttempt()
      try {
        const stored = await objectOf(batch, spec, {
          epoch: settings.epoch,
          park: park && ((rejected) => parkAll(park, rejected)),
          signal,
        })
        if (stored === null) return
        const { key, body, contentType, contentEncoding } = stored
        const object = { Key: key, Body: body, ContentType: contentType, ContentEncoding: contentEncoding }
        // node:http drops an upgraded connection (101) without an error, and the SDK would keep waiting.
        await untilStopped(store.put(object, signal), signal)
      } catch (error) {
        if (signal.aborted) throw aborted()
        if (rejectedRecordOf(error) !== undefined) throw error
        throw rejectingSingle(store.deliveryError(error, batch.firstSeq), batch)
      }
    },
    async close() {
      store.close()
    },
  }
}

/** If the records are at fault and the batch has one message, names that message as rejected. */
function rejectingSingle(failure: DeliveryError, { messages, firstSeq }: Batch): DeliveryError {
  if (failure.fault !== 'records' || messages.length > 1) return failure
  return failure.with({ rejected: rejectionOf(failure, { seq: firstSeq, recordIndex: null }) })
}
