/** Chooses the range of hours that the charts of the page show (`data/hour-range.ts`). */
import { lazy, Suspense, useState } from 'react'
import { hourRanges, useHourRange, useSetHourRange } from '../data/hour-range.ts'
import styles from './chart.module.css'

const CustomRange = lazy(() =>
  import('./custom-range.tsx').then((module) => ({ default: module.CustomRange })),
)

export function TimeRange({ of }: { of: string }) {
  const range = useHourRange()
  const setRange = useSetHourRange()
  const [isChoosing, setChoosing] = useState(false)
  return (
    <div className={styles.range}>
      <fieldset aria-label={`Time range of ${of}`}>
        {hourRanges.map(([name, label]) => (
          <button
            key={name}
            type="button"
            aria-pressed={range.name === name}
            onClick={() => setRange({ range: name })}
          >
            {label}
          </button>
        ))}
        <button
          type="button"
          aria-pressed={range.name === null}
          aria-expanded={isChoosing}
          onClick={() => setChoosing(!isChoosing)}
        >
          Custom
        </button>
      </fieldset>
      {isChoosing ? (
        <Suspense fallback={null}>
          <CustomRange
            onRange={(search) => {
              if (search !== null) setRange(search)
              setChoosing(false)
            }}
          />
        </Suspense>
      ) : null}
    </div>
  )
}
