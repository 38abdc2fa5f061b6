-- Requests that share keys, or have several: a flat list of numbers.
--   key, cost, rest                                  one limit
--   0, n, and n times key, cost, rest, watch         several: all pay, or none does
--   -1, key, amount, rest                            give back
--   -2, key                                          forget
local function settle_connected(count)
  local TOGETHER, GIVE_BACK, ENFORCED = 0, -1, 0
  -- Each key's value, rule, algorithm, own time, and state in three parts.
  local raw, rule, by, at, first, second, third = {}, {}, {}, {}, {}, {}, {}
  -- Keys whose state is not what is stored, and those among them for which that matters.
  local stale, changed = {}, {}

  for key = count + 1, #KEYS do
    local it = rules[keys[key - count]]
    raw[key], rule[key], at[key] = found[key], it, now + (phases and phases[key] or 0)
    by[key] = algorithm(it[1])
    first[key], second[key], third[key] = read(by[key], it, raw[key])
    if by[key].tell then found[key] = TOLD end
    if not first[key] then found[key], by[key] = DAMAGED, algorithm(0) end
  end

  local function become(key, has_changed, a, b, c)
    if has_changed then
      first[key], second[key], third[key], changed[key] = a, b, c, true
    end
  end

  local function tell(key, cost)
    local has_changed, a, b, c =
      by[key].tell(told, rule[key], at[key], first[key], second[key], third[key], cost)
    first[key], second[key], third[key] = a, b, c
    if has_changed then stale[key] = true end
  end

  -- Whether a cost fits. A peek costs nothing, so it fits even if too much was taken.
  local function probe(key, cost, rest)
    local it = by[key]
    if it.tell then tell(key, cost) end
    local fits = it.take(rule[key], at[key], first[key], second[key], third[key], cost, rest)
    return fits or (cost == 0 and rest == 0 and not it.never)
  end

  local function take(key, cost, rest)
    become(key, true, select(2,
      by[key].take(rule[key], at[key], first[key], second[key], third[key], cost, rest)))
  end

  local function deny(key, cost, rest)
    if stale[key] then changed[key] = true end
    become(key, by[key].deny(rule[key], at[key], first[key], second[key], third[key], cost, rest))
  end

  local function give(key, amount, rest)
    if raw[key] or changed[key] then
      become(key,
        by[key].give(rule[key], at[key], first[key], second[key], third[key], amount, rest))
    end
  end

  local function forget(key)
    call('DEL', KEYS[key])
    raw[key], changed[key], stale[key] = false, nil, nil
    first[key], second[key], third[key] = read(by[key], rule[key], nil)
  end

  local function pay(passes, key, cost, rest)
    if cost == 0 and rest == 0 then return end
    if passes then take(key, cost, rest) else deny(key, cost, rest) end
  end

  -- What a charge and the earlier ones to the same counter cost together.
  local function sum(place, i, fits)
    local key, cost, rest = unpack(requests, place + i * 4, place + i * 4 + 2)
    for j = 0, i - 1 do
      if fits[j] and requests[place + j * 4] == key then
        cost, rest = cost + requests[place + j * 4 + 1], rest + requests[place + j * 4 + 2]
      end
    end
    return key, cost, rest
  end

  local function settle_together(place, n)
    local fits, passes, refused = {}, true, {}
    for i = 0, n - 1 do
      local watch = requests[place + i * 4 + 3]
      fits[i] = probe(sum(place, i, fits))
      if not fits[i] then
        if watch == ENFORCED then passes = false else refused[watch] = true end
      end
    end
    for i = 0, n - 1 do
      local pays = passes and fits[i] and not refused[requests[place + i * 4 + 3]]
      pay(pays, unpack(requests, place + i * 4, place + i * 4 + 2))
    end
  end

  local place, size = 1, #requests
  while place <= size do
    local key = requests[place]
    if key > 0 then
      local cost, rest = requests[place + 1], requests[place + 2]
      pay(probe(key, cost, rest), key, cost, rest)
      place = place + 3
    elseif key == TOGETHER then
      local n = requests[place + 1]
      settle_together(place + 2, n)
      place = place + 2 + n * 4
    elseif key == GIVE_BACK then
      give(requests[place + 1], requests[place + 2], requests[place + 3])
      place = place + 4
    else
      forget(requests[place + 1])
      place = place + 2
    end
  end

  for key = count + 1, #KEYS do
    if changed[key] then
      local written =
        by[key].write(KEYS[key], rule[key], at[key], raw[key], first[key], second[key], third[key])
      if not written then found[key] = OCCUPIED end
    end
  end
end
