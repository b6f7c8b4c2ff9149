/**
 * Line charts over time. uPlot draws on a canvas; the data is also described in words for users who cannot see it.
 */
import { useEffect, useRef } from 'react'
import UPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { count } from '../../../platform/quantities.ts'
import styles from './chart.module.css'
import { timeZone } from './text.tsx'

export interface ChartProps {
  /** Describes the chart in words. */
  description: string
  /** Seconds since 1970. */
  times: readonly number[]
  series: readonly { name: string; values: readonly (number | null)[] }[]
  /** True: a value holds until the next time, as for an hourly count. */
  isStepped?: boolean
  /** The labels of the axis of values; by default they are counts. */
  format?: ((value: number) => string) | undefined
}

const height = 190
/** The minimum range. Otherwise the first two points would be a line across the whole chart. */
const shortestSeconds = 300
/** There are no fractions of records. */
const wholeSteps = [1, 2, 5]
  .flatMap((one) => [0, 1, 2, 3, 4, 5, 6].map((power) => one * 10 ** power))
  .sort((a, b) => a - b)
const dashes = [[], [6, 4], [2, 3]]
const colours = ['--accent', '--warn', '--bad']

const daySeconds = 86_400
const timeOfDay = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const timeWithSeconds = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' })
const dayAndMonth = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })

/** Labels of the time axis in the browser's locale; uPlot's own are American. The first one of a day is its date. */
function timeLabels(times: readonly number[], stepSeconds: number): string[] {
  const days = times.map((time) => dayAndMonth.format(time * 1000))
  return times.map((time, index) => {
    const day = days[index] ?? ''
    if (stepSeconds >= daySeconds || (index > 0 && day !== days[index - 1])) return day
    return (stepSeconds < 60 ? timeWithSeconds : timeOfDay).format(time * 1000)
  })
}

export function Chart({ description, times, series, isStepped = false, format = count }: ChartProps) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot | null>(null)
  const names = series.map(({ name }) => name).join('\n')
  useEffect(() => {
    const element = place.current
    if (element === null) return
    const made = new UPlot(
      optionsOf(names.split('\n'), element.clientWidth, { isStepped, format }),
      [[], []],
      element,
    )
    plot.current = made
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }))
    resized.observe(element)
    // Colors are read while drawing, so a change of the theme requires a redraw.
    const redraw = () => made.redraw(false)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    scheme.addEventListener('change', redraw)
    const themed = new MutationObserver(redraw)
    themed.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    return () => {
      resized.disconnect()
      themed.disconnect()
      scheme.removeEventListener('change', redraw)
      made.destroy()
    }
  }, [names, isStepped, format])
  useEffect(() => {
    plot.current?.setData([[...times], ...series.map(({ values }) => [...values])])
  }, [times, series])
  return (
    <figure>
      <figcaption className={styles.legend}>
        {series.map(({ name }) => (
          <span key={name}>
            <i />
            {name}
          </span>
        ))}
        <small>Times: {timeZone}</small>
      </figcaption>
      <div className={styles.chart} ref={place} role="img" aria-label={description} />
    </figure>
  )
}

function optionsOf(
  names: readonly string[],
  width: number,
  { isStepped, format }: { isStepped: boolean; format: (value: number) => string },
): UPlot.Options {
  const colour = (token: string) => () => resolved(token)
  const stepped = UPlot.paths.stepped?.({ align: 1 })
  const axis = {
    stroke: colour('--text-soft'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
  }
  return {
    width,
    height,
    // The last label of the time axis is centered on the right edge.
    padding: [null, 36, null, null],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { range: (_, min, max) => [Math.min(min, max - shortestSeconds), max] },
      y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] },
    },
    axes: [
      // biome-ignore lint/complexity/useMaxParams: uPlot calls it with these
      { ...axis, space: 80, values: (_, times, __, ___, stepSeconds) => timeLabels(times, stepSeconds) },
      { ...axis, size: 56, incrs: wholeSteps, values: (_, values) => values.map((value) => format(value)) },
    ],
    series: [
      {},
      ...names.map((name, index) => ({
        label: name,
        stroke: colour(colours[index] ?? '--text'),
        width: 2,
        dash: dashes[index] ?? [],
        points: { show: false },
        ...(isStepped && stepped !== undefined ? { paths: stepped } : {}),
      })),
    ],
  }
}

/** A canvas does not support light-dark(), so the browser computes the color. */
function resolved(token: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${token})`
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
