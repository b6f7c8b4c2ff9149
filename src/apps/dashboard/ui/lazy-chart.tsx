/** The chart. Its package is loaded when the first chart is shown. */
import { lazy } from 'react'

export const Chart = lazy(() => import('./chart.tsx').then((module) => ({ default: module.Chart })))
