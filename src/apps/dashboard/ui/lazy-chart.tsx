/** The chart, whose package comes when the first one is shown. */
import { lazy } from 'react'

export const Chart = lazy(() => import('./chart.tsx').then((module) => ({ default: module.Chart })))
