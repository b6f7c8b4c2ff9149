/**
 * Metrics with one series per object (pipe, lane). A family has at most 500 series. Further objects are summed in series with
 * the name `_other`, so that a service with 10,000 lanes does not overload Prometheus.
 *
 *   objects ──▶ a slot each, while slots are free (kept until the object is gone, so that series do not come and go)
 *          └──▶ no slot: summed in `_other`
 *
 * `_other` of a counter never decreases, whichever objects join or leave it: it sums the increase of each since the last scrape.
 * `pipectl_metrics_folded_series` is the number of series of a family that are summed.
 */
import { Counter, Gauge, type Registry } from 'prom-client'
import type { HistogramCounts } from '../../platform/histogram.ts'
import { registerHistogram } from './read-histogram.ts'

export const maxSeries = 500
/** No pipe has such an id. */
export const other = '_other'

export type Labels = Record<string, string>

/** One series of an object: its labels in addition to those of the object. */
export type Series = readonly [labels: Labels, value: number]

export interface Family<T> {
  name: string
  help: string
  kind: 'gauge' | 'counter'
  /** The labels of its series, in addition to those of the object. */
  labelNames?: readonly string[]
  /** How the surplus series are combined: ages are not summed. */
  fold?: 'sum' | 'max'
  /** Always the same labels in the same order. */
  series(object: T): readonly Series[]
}

export class FoldedSeries {
  readonly #gauge: Gauge<string>

  constructor(registry: Registry) {
    this.#gauge = new Gauge({
      name: 'pipectl_metrics_folded_series',
      help: `Series of a metric over ${maxSeries}, which are added up in the series ${other}.`,
      labelNames: ['metric'],
      registers: [registry],
    })
  }

  set(metric: string, series: number): void {
    this.#gauge.set({ metric }, series)
  }
}

export interface ObjectNames<T> {
  labelNames: readonly string[]
  /** Identifies the object as long as it exists. */
  key(object: T): string
  labels(object: T): Labels
}

/** Returns a function that sets all series of the family from the current objects. */
export function registerFamily<T>(
  registry: Registry,
  names: ObjectNames<T>,
  family: Family<T>,
  folded: FoldedSeries,
): (objects: readonly T[]) => void {
  const labelNames = [...names.labelNames, ...(family.labelNames ?? [])]
  const options = { name: family.name, help: family.help, labelNames, registers: [registry] }
  const metric = family.kind === 'gauge' ? new Gauge(options) : new Counter(options)
  const otherLabels = Object.fromEntries(names.labelNames.map((name) => [name, other]))
  const slots = new SeriesSlots()
  const others = family.kind === 'counter' ? new MonotonicSums() : new Aggregates(family.fold ?? 'sum')
  return (objects) => {
    metric.reset()
    const all = objects.map((object) => ({ object, key: names.key(object), series: family.series(object) }))
    const each = Math.max(1, ...all.map(({ series }) => series.length))
    const withSlot = slots.take(
      all.map(({ key }) => key),
      each,
    )
    const rest = all.filter(({ key }) => !withSlot.has(key))
    others.begin()
    for (const { key, series } of rest) for (const [labels, value] of series) others.add(key, labels, value)
    for (const { object, key, series } of all)
      if (withSlot.has(key)) setSeries(metric, names.labels(object), series)
    setSeries(metric, otherLabels, others.end())
    folded.set(
      family.name,
      rest.reduce((sum, { series }) => sum + series.length, 0),
    )
  }
}

/** Like `registerFamily`, for a histogram per object. A histogram is one series per bucket, the sum and the count. */
export function registerHistogramFamily<T>(
  registry: Registry,
  names: ObjectNames<T>,
  family: { name: string; help: string; counts(object: T): HistogramCounts },
  folded: FoldedSeries,
): (objects: readonly T[]) => void {
  const show = registerHistogram(registry, family.name, family.help, names.labelNames)
  const otherLabels = Object.fromEntries(names.labelNames.map((name) => [name, other]))
  const slots = new SeriesSlots()
  const others = new MonotonicSums()
  return (objects) => {
    const all = objects.map((object) => ({ object, key: names.key(object), counts: family.counts(object) }))
    const { bounds = [] } = all[0]?.counts ?? {}
    const each = bounds.length + 3
    const withSlot = slots.take(
      all.map(({ key }) => key),
      each,
    )
    const rest = all.filter(({ key }) => !withSlot.has(key))
    others.begin()
    for (const { key, counts } of rest) {
      for (const [bucket, count] of counts.counts.entries())
        others.add(key, { bucket: String(bucket) }, count)
      others.add(key, { bucket: 'sum' }, counts.sum)
    }
    const shown = all
      .filter(({ key }) => withSlot.has(key))
      .map(({ object, counts }) => [names.labels(object), counts] as const)
    const values = others.end().map(([, value]) => value)
    const otherCounts = { bounds, counts: values.slice(0, -1), sum: values.at(-1) ?? 0 }
    show(values.length === 0 ? shown : [...shown, [otherLabels, otherCounts]])
    folded.set(family.name, rest.length * each)
  }
}

/** `own`: the labels of the object. */
function setSeries(metric: Gauge | Counter, own: Labels, series: Iterable<Series>): void {
  for (const [labels, value] of series) {
    if (metric instanceof Gauge) metric.set({ ...own, ...labels }, value)
    else metric.inc({ ...own, ...labels }, value)
  }
}

/** Assigns slots in order of arrival. If there are fewer slots, the last objects lose theirs. */
class SeriesSlots {
  readonly #keys = new Set<string>()

  /** `each`: the number of series of an object. */
  take(keys: readonly string[], each: number): ReadonlySet<string> {
    const count = keys.length * each > maxSeries ? Math.floor(maxSeries / each) - 1 : keys.length
    const present = new Set(keys)
    for (const key of this.#keys) if (!present.has(key)) this.#keys.delete(key)
    for (const key of [...this.#keys].slice(count)) this.#keys.delete(key)
    for (const key of keys) {
      if (this.#keys.size >= count) break
      this.#keys.add(key)
    }
    return this.#keys
  }
}

class Aggregates {
  readonly #fold: 'sum' | 'max'
  #values = new Map<string, { labels: Labels; value: number }>()

  constructor(fold: 'sum' | 'max') {
    this.#fold = fold
  }

  begin(): void {
    this.#values = new Map()
  }

  add(_: string, labels: Labels, value: number): void {
    const name = JSON.stringify(labels)
    const before = this.#values.get(name)?.value ?? 0
    const folded = this.#fold === 'sum' ? before + value : Math.max(before, value)
    this.#values.set(name, { labels, value: folded })
  }

  end(): Series[] {
    return [...this.#values.values()].map(({ labels, value }) => [labels, value])
  }
}

/** Sums that never decrease: an object that leaves keeps its part in them. */
class MonotonicSums {
  readonly #sums = new Map<string, { labels: Labels; value: number }>()
  /** By object and labels: the value that was added last. */
  #last = new Map<string, number>()
  #current = new Map<string, number>()

  begin(): void {
    this.#current = new Map()
  }

  add(key: string, labels: Labels, value: number): void {
    const name = JSON.stringify(labels)
    const series = `${key} ${name}`
    const sum = this.#sums.get(name) ?? { labels, value: 0 }
    sum.value += Math.max(0, value - (this.#last.get(series) ?? 0))
    this.#sums.set(name, sum)
    this.#current.set(series, value)
  }

  end(): Series[] {
    this.#last = this.#current
    return [...this.#sums.values()].map(({ labels, value }) => [labels, value])
  }
}
