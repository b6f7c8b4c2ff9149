/**
 * The guarantees of every driver through its port (`destinations/driver.ts`): one suite, run against each real
 * server.
 */
import type { Test } from 'tap'
import type { DestinationType } from '../../../src/contract/destination.ts'
import {
  type Batch,
  DeliveryError,
  type DestinationSpec,
  type DriverSettings,
} from '../../../src/destinations/driver.ts'
import { openDriver } from '../../../src/destinations/drivers.ts'
import { anyKey, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { until } from '../../support/until.ts'

export interface DriverUnderTest {
  type: DestinationType
  config: Record<string, unknown>
  /** The config for a port where nobody listens. Null: there is no server. */
  nobodyThere: Record<string, unknown> | null
  /** Wrong credentials, or a name that is not there. */
  stranger: Record<string, unknown>
  strangerClass: 'transient' | 'permanent'
  columns?: Parameters<typeof makeSpec>[2]
  settings?: DriverSettings
  workspaceId?: string
  /** Empties the destination. */
  clear(): Promise<unknown>
  /** `n` of every stored record, in the order they are stored. */
  stored(): Promise<number[]>
  /** The same batch again stores nothing twice. */
  isIdempotent: boolean
  /** Makes the next deliveries wait until they are aborted; the result undoes it. */
  stall(): Promise<() => Promise<unknown> | unknown>
  /** Makes the record with this `n` fail for good; where the destination looks into records. */
  poison: { n: unknown } | null
  /** Connections that are open on the server's side. */
  connections(): Promise<number>
}

const numbers = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => ({ n: from + index }))

export async function conform(t: Test, world: DriverUnderTest): Promise<void> {
  const open = (t: Test, config: Record<string, unknown> = world.config) => {
    const { workspaceId } = world
    const spec: DestinationSpec = {
      ...makeSpec(world.type, config, world.columns),
      ...(workspaceId && { workspaceId }),
    }
    const driver = openDriver(spec, world.settings ?? openSettings, anyKey)
    t.teardown(() => driver.close())
    return driver
  }
  const batch = makeBatch([numbers(0, 3), numbers(3, 1), numbers(4, 6)], 5)
  t.beforeEach(() => world.clear())

  await t.test('every record is stored once, in order', async (t) => {
    const driver = open(t)
    await driver.deliver(batch, never)
    await driver.deliver(makeBatch([numbers(10, 2)], 8), never)
    t.same(
      await world.stored(),
      numbers(0, 12).map(({ n }) => n),
    )
  })

  await t.test('the same batch again, over a new connection too', async (t) => {
    const driver = open(t)
    await driver.deliver(batch, never)
    await driver.deliver(batch, never)
    await open(t).deliver(batch, never)
    const once = numbers(0, 10).map(({ n }) => n)
    t.same(await world.stored(), world.isIdempotent ? once : [...once, ...once, ...once])
  })

  await t.test('abort: the attempt ends as transient, and the driver delivers again', async (t) => {
    const driver = open(t)
    const undo = await world.stall()
    const controller = new AbortController()
    const attempt = failure(driver.deliver(batch, controller.signal))
    await until('it is connected', async () => (await world.connections()) > 0)
    controller.abort()
    t.match(await attempt, { class: 'transient', code: 'aborted' })
    await undo()
    await driver.deliver(batch, never)
    t.ok((await world.stored()).length >= 10)
  })

  await t.test('aborted before it began', async (t) => {
    t.match(await failure(open(t).deliver(batch, AbortSignal.abort())), {
      class: 'transient',
      code: 'aborted',
    })
    t.same(await world.stored(), [])
  })

  await t.test('nobody there: transient; wrong credentials: as the destination says', async (t) => {
    if (world.nobodyThere !== null) {
      const lost = open(t, { ...world.config, ...world.nobodyThere })
      t.equal((await failure(lost.deliver(batch, never))).class, 'transient')
    }
    const error = await failure(open(t, { ...world.config, ...world.stranger }).deliver(batch, never))
    t.equal(error.class, world.strangerClass, error.code)
    if (error.class === 'permanent') t.equal(error.failedSeq, batch.firstSeq, 'it concerns every message')
    t.same(await world.stored(), [])
  })

  const { poison } = world
  if (poison !== null)
    await t.test('a permanent failure names its message and stores nothing of the batch', async (t) => {
      const bad: Batch = makeBatch([numbers(0, 2), numbers(2, 2), [{ n: 4 }, poison], numbers(6, 2)], 20)
      const error = await failure(open(t).deliver(bad, never))
      t.match(error, { class: 'permanent', failedSeq: 22 })
      t.same(await world.stored(), [])
    })

  await t.test('closing twice, unused or used, leaves nothing open', async (t) => {
    const unused = open(t)
    await unused.close()
    await unused.close()
    const used = open(t)
    await used.deliver(batch, never)
    await used.close()
    await used.close()
    await until('no connection is left', async () => (await world.connections()) === 0)
  })
}

async function failure(work: Promise<unknown>): Promise<DeliveryError> {
  const error = await work.then(
    () => new Error('the delivery succeeded'),
    (reason: unknown) => reason,
  )
  if (error instanceof DeliveryError) return error
  throw error
}
