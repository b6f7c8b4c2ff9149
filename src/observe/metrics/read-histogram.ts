/** A Prometheus histogram whose values were counted elsewhere. */
import { Histogram, type Registry } from 'prom-client'
import type { HistogramCounts } from '../../platform/histogram.ts'

type Labels = Record<string, string>

interface Value {
  value: number
  metricName: string
  labels: Labels
}

class ReadHistogram extends Histogram<string> {
  readonly #name: string
  readonly #help: string
  #values: Value[] = []

  constructor(options: { name: string; help: string; labelNames: readonly string[]; registers: Registry[] }) {
    super({ ...options, labelNames: [...options.labelNames] })
    this.#name = options.name
    this.#help = options.help
  }

  show(all: readonly (readonly [labels: Labels, counts: HistogramCounts])[]): void {
    this.#values = all.flatMap(([labels, counts]) => valuesOf(this.#name, labels, counts))
  }

  /** Returns our values to the registry instead of the counts of the superclass. */
  async getForPromString() {
    return { name: this.#name, help: this.#help, type: 'histogram', values: this.#values }
  }
}

/** Returns a function that replaces the counts. */
export function registerHistogram(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly string[] = [],
): (all: readonly (readonly [labels: Labels, counts: HistogramCounts])[]) => void {
  const histogram = new ReadHistogram({ name, help, labelNames, registers: [registry] })
  return (all) => histogram.show(all)
}

function valuesOf(name: string, labels: Labels, { bounds, counts, sum }: HistogramCounts): Value[] {
  let count = 0
  const buckets = counts.map((own, index) => {
    count += own
    const le = index < bounds.length ? String(bounds[index]) : '+Inf'
    return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count }
  })
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ]
}
