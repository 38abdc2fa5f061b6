-- For tests: the caller gives the time of all decisions in this call. Keys must not expire by Redis's
-- clock, so they expire in thousands of years. Milliseconds stand for microseconds there, so that a
-- test can read the exact time to live.
local now = tonumber(ARGV[2])
local FAR_AWAY = 1e15

local function keep(key, was, state, micros)
  local at = format('%.0f', FAR_AWAY + now + micros)
  if not was then return call('SET', key, state, 'PXAT', at, 'NX') end
  return call('SET', key, state, 'PXAT', at)
end
